// Package websocket tries the Responses API over real WebSockets, with compression: a
// client, and a gateway between an agent and a server.
package websocket
