package admission

// MostSent bounds a proposal as it is sent, in bytes: one commit may change 100,000 instances.
const MostSent = 256 << 20
