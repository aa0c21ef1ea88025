'use strict';
module.exports = require('./otelllm-openai-agents.mjs');
