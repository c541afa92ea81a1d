// Package config reads the daemon's configuration and finds its files. It merges the flags,
// the environment and the YAML file into one Config, in which each setting knows where it
// was written.
//
//	places := config.Places{Env: os.Getenv, UID: os.Getuid()}
//	c, err := places.Source(file, cmd.Flags()).Load() // err names every mistake with its line
//	for _, j := range c.Judgements("krang", "imu", nil) {
//		fmt.Println(j.Verb, j.Result, j.From) // which rule applies, and where it stands
//	}
//
// A flag overrides the environment, which overrides the file, which overrides the default.
// A Judgement says which rule applies to a channel; achbridge explain and check print it.
// Package bridge/rule parses rules and quality of service.
package config
