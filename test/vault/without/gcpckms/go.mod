module github.com/hashicorp/go-kms-wrapping/wrappers/gcpckms/v2

go 1.26.0
