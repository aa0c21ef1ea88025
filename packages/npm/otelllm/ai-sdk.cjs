'use strict';
module.exports = require('./otelllm-ai-sdk.mjs');
