package hosts

import (
	"os"
	"testing"

	"achbridge/testnet/await"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(await.Main(m))
}
