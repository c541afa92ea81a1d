package daemon

import (
	"slices"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
)

// withoutTypes is a status without what types say of frames: who reaches the page needs no key, and is
// told of ages, not of what frames hold.
func withoutTypes(s api.StatusReply) api.StatusReply {
	s.Mirrors, s.Locals = slices.Clone(s.Mirrors), slices.Clone(s.Locals)
	for i := range s.Mirrors {
		s.Mirrors[i].TypeHash, s.Mirrors[i].Misfit = "", nil
	}
	for i := range s.Locals {
		s.Locals[i].Misfit = nil
	}
	s.Troubles = slices.DeleteFunc(slices.Clone(s.Troubles), func(t diagnose.Trouble) bool { return t.Cause == status.CauseTypeMisfit })
	return s
}
