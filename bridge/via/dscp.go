package via

import "fmt"

// DSCP is the differentiated services code point of packets (RFC 2474). Wi-Fi and routers choose a queue by it. The
// zero value is best effort.
type DSCP uint8

// The code points that links use, with the Wi-Fi queue (WMM) that RFC 8325 assigns to each.
const (
	CS0  DSCP = 0  // best effort
	CS1  DSCP = 8  // background
	AF41 DSCP = 34 // video
	CS6  DSCP = 48 // voice
)

// String returns the standard name of the code point.
func (d DSCP) String() string {
	switch d {
	case CS0:
		return "CS0"
	case CS1:
		return "CS1"
	case AF41:
		return "AF41"
	case CS6:
		return "CS6"
	}
	return fmt.Sprintf("DSCP %d", uint8(d))
}
