// Package config reads the daemon's configuration and finds its files. It merges the flags,
// the environment and the YAML file into one Config, in which each setting knows where it
// was written.
//
//	places := config.Places{Env: os.Getenv, UID: os.Getuid()}
//	c, err := places.Source(file, cmd.Flags()).Load() // err has every error with its line
//	for _, j := range c.Judgements("krang", "imu", nil) {
//		fmt.Println(j.Verb, j.Result, j.From) // the rule that applies, and its position
//	}
//
// A flag overrides the environment, which overrides the file, which overrides the default.
// A Judgement names the rule that applies to a channel; achbridge check --explain and check print it.
// Package bridge/rule parses rules and quality of service.
package config
