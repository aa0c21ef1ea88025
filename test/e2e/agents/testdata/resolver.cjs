// Every host that TLS is spoken to is the port E2E_RESOLVED of this machine.
const tls = require("node:tls");
const connect = tls.connect;
tls.connect = (options, ...rest) => connect({ ...options, host: "127.0.0.1", port: Number(process.env.E2E_RESOLVED) }, ...rest);
