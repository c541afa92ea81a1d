package daemon

import (
	"slices"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
)

// withoutTypes returns s without information about layouts. The web page needs no key, so it shows ages
// but nothing about the content of frames.
func withoutTypes(s api.StatusReply) api.StatusReply {
	s.Report = reportWithoutTypes(s.Report)
	s.Problems = slices.DeleteFunc(slices.Clone(s.Problems), func(t diagnose.Problem) bool { return t.Cause == status.CauseTypeMismatch })
	return s
}

// reportWithoutTypes is withoutTypes for the report of the node.
func reportWithoutTypes(s status.Report) status.Report {
	s.Mirrors, s.Locals = slices.Clone(s.Mirrors), slices.Clone(s.Locals)
	for i := range s.Mirrors {
		s.Mirrors[i].TypeHash, s.Mirrors[i].Mismatch = "", nil
	}
	for i := range s.Locals {
		s.Locals[i].Mismatch = nil
	}
	return s
}
