package licences

import (
	"slices"
	"strings"
	"testing"
)

func TestALicenceIsToldByItsText(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"                                 Apache License\n                           Version 2.0, January 2004\n", []string{"Apache-2.0"}},
		{"Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software", []string{"MIT"}},
		{"Redistribution and use in source and binary forms, with or without\nmodification ...\n   * Neither the name of X nor", []string{"BSD-3-Clause"}},
		{"// Redistribution and use in source and binary forms, with or without\n// modification, are permitted", []string{"BSD-2-Clause"}},
		{"Mozilla Public License, version 2.0\n\n1. Definitions", []string{"MPL-2.0"}},
		{"Nobody may use this.", nil},
	} {
		if got := identify(test.text); !slices.Equal(got, test.want) {
			t.Errorf("%q is told as %v, want %v", test.text, got, test.want)
		}
	}
}

func TestAModuleWithoutALicenceThatIsKnownIsRefused(t *testing.T) {
	for _, m := range []Module{
		{Path: "example.org/none", Version: "v1.0.0"},
		{Path: "example.org/own", Version: "v1.0.0", Files: []File{{Name: "LICENSE", Text: "Nobody may use this."}}},
		{Path: "example.org/notice", Version: "v1.0.0", Files: []File{{Name: "NOTICE", Text: "Copyright 2026 Somebody"}}},
	} {
		if err := m.classify(); err == nil || !strings.Contains(err.Error(), m.Path) {
			t.Errorf("%s is taken: %v", m.Path, err)
		}
	}
}

func TestATextThatSeveralModulesShareStandsThereOnce(t *testing.T) {
	file := []File{{Name: "LICENSE", Text: "The same words.\n"}}
	text := string(Text([]Module{{Path: "example.org/a", Version: "v1.0.0", Files: file}, {Path: "example.org/b", Version: "v2.0.0", Files: file}}))
	if strings.Count(text, "The same words.") != 1 || !strings.Contains(text, "example.org/a v1.0.0, LICENSE\nexample.org/b v2.0.0, LICENSE\n") {
		t.Error(text)
	}
}
