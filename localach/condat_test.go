package localach

// CondAt is the offset of the condition variable in a channel's file.
const CondAt = headerBytes - 64
