package localach

// CondAt is where the condition variable lies in a channel's file.
const CondAt = headerBytes - 64
