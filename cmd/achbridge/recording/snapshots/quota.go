package snapshots

import (
	"cmp"
	"slices"
)

// File is a file that counts against a quota.
type File struct {
	Name  string
	Bytes int64
}

// Excess returns the files to remove so that the others have room for more bytes below quota: those with the least
// names first, which are the oldest. ok is false if more exceeds the quota even without any file.
func Excess(files []File, more, quota int64) (remove []File, ok bool) {
	sum := more
	for _, f := range files {
		sum += f.Bytes
	}
	oldest := slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range oldest {
		if sum <= quota {
			break
		}
		sum -= f.Bytes
		remove = append(remove, f)
	}
	return remove, sum <= quota
}
