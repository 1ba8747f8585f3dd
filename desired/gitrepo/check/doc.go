// Package check judges what is pushed to the desired repository by what git alone tells. It is all of the desired repository
// that the process of a push hook needs: it only reads.
package check
