import otelllm = require('otelllm');
import sdk = require('otelllm/ai-sdk');

const run: Promise<number> = otelllm.withRun('coder', undefined, () => 1);
sdk.retryMiddleware();
export = run;
