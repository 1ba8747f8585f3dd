// Package flux names the versions of Flux's controllers that the script of this folder builds.
package flux
