'use strict';
// The module itself, not a copy for CommonJS: runs and requests have to share their state. Node has this from 20.19 on.
module.exports = require('./index.mjs');
