package testnet

import "time"

// The models below are fitted to published percentiles of the round trip over the Wi-Fi hop, for a
// small probe that is the station's only traffic. A search varied the lengths of calm and busy
// spells, the transmissions of others in them, and the stalls. TestFittedWifiMatchesPublishedPercentiles prints
// how well they fit. A few percentiles do not determine all parameters: the correlation in time and
// the rates are guesses. The published figures are for many devices, each model is one station.

// fitCampus has the percentiles of a campus of 47 000 devices, probed with pings to devices
// that are awake: half of the round trips take 3 ms, 10 % more than about 20 ms, 1 % more than
// about 250 ms. Sui et al., Characterizing and Improving WiFi Latency in Large-Scale Operational
// Networks (WiFiSeer), MobiSys 2016, doi 10.1145/2906388.2906393.
var fitCampus = wifiModel{
	rates: []float64{13e6, 19.5e6, 26e6, 39e6, 52e6}, dwell: [2]time.Duration{100 * time.Millisecond, 800 * time.Millisecond},
	loss: 0.08, wholeLoss: 0.05, overhead: 220 * time.Microsecond, longest: 4 * time.Millisecond,
	stalls: []stallClass{{183 * time.Millisecond, 6 * time.Millisecond, 12 * time.Millisecond}, {6 * time.Second, 33 * time.Millisecond, 630 * time.Millisecond}},
	calm:   [2]time.Duration{400 * time.Millisecond, 205 * time.Millisecond}, otherTurns: [2]float64{0.5, 4.8}, otherTurnTime: 1100 * time.Microsecond,
}

// fitCampusTCP has the percentiles of the same campus for packets of busy TCP connections, at 47
// access points: more than half of the round trips take more than 20 ms, and more than 10 % take
// more than 100 ms. Pei et al., WiFi can be the weakest link of round trip network latency in the
// wild, INFOCOM 2016. Much of that delay is the connection's own queue, which this model treats as
// delay of the air.
var fitCampusTCP = wifiModel{
	rates: []float64{13e6, 19.5e6, 26e6, 39e6, 52e6}, dwell: [2]time.Duration{100 * time.Millisecond, 800 * time.Millisecond},
	loss: 0.08, wholeLoss: 0.05, overhead: 220 * time.Microsecond, longest: 4 * time.Millisecond,
	stalls: []stallClass{{114 * time.Millisecond, 2700 * time.Microsecond, 38 * time.Millisecond}, {12700 * time.Millisecond, 19 * time.Millisecond, 260 * time.Millisecond}},
	calm:   [2]time.Duration{375 * time.Millisecond, 390 * time.Millisecond}, otherTurns: [2]float64{0.67, 6.6}, otherTurnTime: 3600 * time.Microsecond,
}

// fitHome2G4 has the percentiles of pings to the router of a home, at 2.4 GHz among a dozen
// networks: half take 6.22 ms, 5 % more than 34.87 ms, 1 % more than 58.91 ms. Grigorik, High
// Performance Browser Networking, O'Reilly 2013, table 6-2 (hpbn.co/wifi).
var fitHome2G4 = wifiModel{
	rates: []float64{13e6, 19.5e6, 26e6, 39e6, 52e6}, dwell: [2]time.Duration{100 * time.Millisecond, 800 * time.Millisecond},
	loss: 0.08, wholeLoss: 0.05, overhead: 220 * time.Microsecond, longest: 4 * time.Millisecond,
	stalls: []stallClass{{272 * time.Millisecond, 4300 * time.Microsecond, 50 * time.Millisecond}, {18600 * time.Millisecond, 19 * time.Millisecond, 108 * time.Millisecond}},
	calm:   [2]time.Duration{700 * time.Millisecond, 755 * time.Millisecond}, otherTurns: [2]float64{0.8, 4.1}, otherTurnTime: 1500 * time.Microsecond,
}

// fitHome5G has the same percentiles of the same home at 5 GHz, with few other networks: 0.90 ms,
// 1.58 ms and 7.89 ms.
var fitHome5G = wifiModel{
	rates: []float64{26e6, 39e6, 52e6, 58.5e6, 65e6, 72.2e6}, dwell: [2]time.Duration{200 * time.Millisecond, time.Second},
	loss: 0.03, wholeLoss: 0.01, overhead: 180 * time.Microsecond, longest: 4 * time.Millisecond,
	stalls: []stallClass{{805 * time.Millisecond, 6700 * time.Microsecond, 20 * time.Millisecond}, {28500 * time.Millisecond, 33 * time.Millisecond, 54 * time.Millisecond}},
	calm:   [2]time.Duration{580 * time.Millisecond, 1150 * time.Millisecond}, otherTurns: [2]float64{0.49, 0.64}, otherTurnTime: 200 * time.Microsecond,
}
