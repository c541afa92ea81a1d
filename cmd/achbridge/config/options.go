package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"achbridge/bridge/rule"
)

// PushOptions are the options that a push can ask for.
func PushOptions() []rule.Option {
	return slices.DeleteFunc(slices.Clone(rule.Options()), func(o rule.Option) bool { return o.Here })
}

// IsSwitch reports whether the words of an option are those of one that is on or off.
func IsSwitch(words []string) bool { return slices.Equal(words, []string{"false", "true"}) }

// QoSText says what of to is not as in from, "" when all is.
func QoSText(from, to rule.QoS) string {
	var list []string
	for _, o := range rule.Options() {
		if text := o.Text(to); text != o.Text(from) {
			list = append(list, o.Key+" "+text)
		}
	}
	return strings.Join(list, ", ")
}

// BudgetOf is the budget that applies.
func BudgetOf(q rule.QoS) time.Duration { return cmp.Or(q.Budget, rule.DefaultBudget) }
