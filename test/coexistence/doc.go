// Package coexistence holds only tests, which run the transport together with other
// transports and SDKs that trace and retry. Whatever is above or below it, each request
// sent is one span of ours, and a run has one call with its attempts. The tests also
// show how SDKs that hide a cut stream report it if the transport makes it an error.
package coexistence
