package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

func ageCommand(a *app) *cobra.Command {
	q := ageQuery{window: 10 * time.Second}
	cmd := &cobra.Command{
		Use:         "age HOST/CHANNEL|MIRROR",
		Short:       "Measure the age of a mirror's newest frame",
		Example:     examples("achbridge age krang/imu", "achbridge age krang.imu --window 30s --fail-above 50ms"),
		Annotations: docs("docs/qos.md"),
		Args:        takes("HOST/CHANNEL|MIRROR"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			q.of = args[0]
			return q.check(cmd)
		},
		ValidArgsFunction: a.remoteNames,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.age(cmd.Context(), a.daemon(), q)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().DurationVar(&q.window, "window", q.window, "measure for `TIME`")
	cmd.Flags().DurationVar(&q.most, "fail-above", 0, "exit with 4 if p99 is above `TIME` (default: no limit)")
	cmd.Flags().DurationVar(&q.most, "fail-over", 0, "the former name of --fail-above")
	_ = cmd.Flags().MarkHidden("fail-over")
	a.jsonFlag(cmd)
	a.controlFlag(cmd)
	return cmd
}

// ageQuery holds the arguments and flags of `age`.
type ageQuery struct {
	of     string
	window time.Duration
	most   time.Duration // limit for the 99th percentile; 0 means no limit
}

func (q ageQuery) check(cmd *cobra.Command) error {
	if err := api.CheckWindow("--window", q.window); err != nil {
		return ui.Usage(err, "")
	}
	if (cmd.Flags().Changed("fail-above") || cmd.Flags().Changed("fail-over")) && q.most <= 0 {
		return ui.Usage(fmt.Errorf("--fail-above %v: want a time above zero, as in 50ms", q.most), "")
	}
	return nil
}

func (a *app) age(ctx context.Context, c *api.Client, q ageQuery) error {
	c = c.Within(api.AnswerTime + q.window)
	var r status.AgeReport
	answer, err := c.GetSoFar(ctx, "/v1/age?"+url.Values{"of": {q.of}, "window": {q.window.String()}}.Encode(), &r)
	if err != nil {
		return err
	}
	if a.asJSON {
		err = a.ui.JSON(answer)
	} else {
		err = a.showAge(r)
	}
	switch w := r.Window; {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: stopped before the %s were over", r.Name, unit.Time(q.window))
	case w == nil:
		return ui.Failure(fmt.Errorf("%s: its age is not known: no frame with a known age came", r.Name), "see achbridge status")
	case q.most > 0 && w.P99Ms > float64(q.most)/float64(time.Millisecond):
		return ui.OverLimit(fmt.Errorf("%s: p99 of its age is %s, over %s", r.Name, ui.Millis(w.P99Ms), unit.Time(q.most)), "")
	}
	return nil
}

func (a *app) showAge(r status.AgeReport) error {
	if r.Window == nil {
		return nil
	}
	w := r.Window
	return a.ui.Fields(
		"mirror", r.Name+" of "+r.Host+"/"+r.Channel,
		"mean", ui.Millis(w.MeanMs),
		"p50", ui.Millis(w.P50Ms),
		"p99", ui.Millis(w.P99Ms),
		"peak", ui.Millis(w.PeakMs),
		"over budget", fmt.Sprintf("%.2f %% of %.3g s over %s", 100*w.OverBudget, w.WindowS, ui.Millis(r.BudgetMs)),
		"clock", "± "+ui.Millis(r.UncertaintyMs),
	)
}
