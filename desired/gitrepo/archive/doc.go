// Package archive copies the whole history of the desired repository to another one, and removes what that one has from the
// repository itself. It knows objects and refs, and not what files mean.
package archive
