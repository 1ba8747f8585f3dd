// Command helper does for the controlplane script what a shell does badly: it makes
// certificates, finds free ports and waits for a server to answer. It uses the standard
// library alone, so that the script needs neither openssl nor curl, and it never starts
// or stops a process.
//
//	helper pki DIR [IP]                    certificates and keys in DIR, unless they are there
//	helper kubeconfig PKI NAME URL FILE    a kubeconfig of its own, with NAME's certificate in it
//	helper ports N                         N free TCP ports of 127.0.0.1, one a line
//	helper await SECONDS PID URL [PKI]     until URL answers 200; PKI holds the admin's certificate
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "helper:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	verb, args := args[0:min(1, len(args))], args[min(1, len(args)):]
	switch {
	case len(verb) == 0:
	case verb[0] == "pki" && len(args) == 1:
		return makePKI(args[0], nil)
	case verb[0] == "pki" && len(args) == 2:
		addr := net.ParseIP(args[1])
		if addr == nil {
			return fmt.Errorf("pki: %q is no address", args[1])
		}
		return makePKI(args[0], addr)
	case verb[0] == "kubeconfig" && len(args) == 4:
		return writeKubeconfig(args[0], args[1], args[2], args[3])
	case verb[0] == "ports" && len(args) == 1:
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("ports %q: not a number", args[0])
		}
		return printPorts(n)
	case verb[0] == "await" && (len(args) == 3 || len(args) == 4):
		seconds, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("await %q: not a number of seconds", args[0])
		}
		pid, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("await: %q is no process id", args[1])
		}
		pki := ""
		if len(args) == 4 {
			pki = args[3]
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
		defer cancel()
		return await(ctx, pid, args[2], pki)
	}
	return errors.New("want: pki DIR [IP] | kubeconfig PKI NAME URL FILE | ports N | await SECONDS PID URL [PKI]")
}
