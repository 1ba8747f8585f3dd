module github.com/hashicorp/go-secure-stdlib/plugincontainer

go 1.26.0
