// Package age measures the age of a mirror's newest frame over time, and when the next frame is due. It reads no
// clock: callers pass the time.
package age
