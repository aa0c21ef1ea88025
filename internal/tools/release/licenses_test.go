package main

import (
	"strings"
	"testing"
)

const (
	mit   = "Permission is hereby granted, free of charge, to any person\nobtaining a copy of this software, to deal in it without\n restriction"
	bsd3  = "Redistribution and use in source and binary forms … Redistributions in binary form … Neither the name of"
	agpl  = "GNU AFFERO GENERAL PUBLIC LICENSE Version 3"
	other = "You may use this for good, not evil."
)

func TestLicenseOf(t *testing.T) {
	for text, want := range map[string]string{
		mit: "MIT", bsd3: "BSD-3-Clause", agpl: "AGPL", other: "",
		"Apache License\n Version 2.0, January 2004": "Apache-2.0",
		mit + " Commons Clause":                      "Commons Clause",
	} {
		if got := licenseOf([]byte(text)); got != want {
			t.Errorf("licenseOf(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestCheckLicenses(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string // part of the error, or "" for none
	}{
		"allowed":             {map[string]string{"LICENSE": mit, "NOTICE": other}, ""},
		"not allowed":         {map[string]string{"LICENSE": agpl}, "AGPL, which is not allowed"},
		"not allowed beneath": {map[string]string{"LICENSE": mit, "vendored/COPYING": agpl}, "vendored/COPYING is AGPL"},
		"unknown":             {map[string]string{"LICENSE": other}, "is not known"},
		"none":                {nil, "there is no licence"},
	} {
		d := &dependency{path: "example.com/a", version: "v1.0.0", files: map[string][]byte{}}
		for file, text := range c.files {
			d.files[file] = []byte(text)
		}
		err := checkLicenses(map[string]*dependency{d.path: d})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestThisProgramsLicenses reads real modules, those of this one.
func TestThisProgramsLicenses(t *testing.T) {
	var out strings.Builder
	notices := t.TempDir() + "/notices.txt"
	if err := printLicenses(&out, ".", notices); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), ".: 1 modules, 1 BSD-3-Clause\n"; got != want {
		t.Errorf("printLicenses printed %q, want %q", got, want)
	}
}
