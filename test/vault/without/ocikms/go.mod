module github.com/hashicorp/go-kms-wrapping/wrappers/ocikms/v2

go 1.26.0
