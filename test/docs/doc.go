// Package docs holds what the guides say against the code: a page that names tests names
// tests that exist. It owns no feature.
package docs
