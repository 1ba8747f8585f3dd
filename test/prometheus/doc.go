// Package prometheus holds Jibe's dashboards and alert rules to a Jibe that runs: Debian's
// Prometheus scrapes real processes to which everything happens that alerts are made for,
// each query of each panel and rule is asked of it, and alerts go through Debian's
// Alertmanager to a receiver. It also draws the dashboards, from their own JSON and that
// run's data, to the pictures of the guides. It has no tests of what metrics count: those
// are beside the code that counts.
package prometheus
