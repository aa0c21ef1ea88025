package wire

// To add a member: put its name into the list of the protocols that have it, beside the SDK
// or the page that has it. A member that lets the server execute something does not belong
// here. If it offers one tool that is known, name the tool in offering as well.

// offering are the members that offer a provider-executed tool, and its name.
var offering = map[string]string{
	"web_search_options":      "web_search",       // OpenAI, Perplexity, LiteLLM
	"enable_search":           "web_search",       // DashScope
	"search_parameters":       "live_search",      // xAI
	"enable_code_interpreter": "code_interpreter", // DashScope
	"data_sources":            "retrieval",        // Azure OpenAI "on your data"
	"dataSources":             "retrieval",
}

// samplingMembers are those that self-hosted servers have in every protocol of theirs.
var samplingMembers = []namesOf{
	{
		"vLLM, vllm/entrypoints/openai/{chat_completion,completion,responses}/protocol.py (October 2026)",
		`thinking_token_budget include_reasoning use_beam_search top_k min_p repetition_penalty watermarking length_penalty
		stop_token_ids include_stop_str_in_output ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens
		truncate_prompt_tokens truncation_side prompt_logprobs logprob_token_ids allowed_token_ids bad_words echo
		add_generation_prompt continue_final_message add_special_tokens documents chat_template chat_template_kwargs
		media_io_kwargs mm_processor_kwargs structured_outputs guided_json guided_regex guided_choice guided_grammar
		guided_decoding_backend guided_whitespace_pattern structural_tag priority request_id session_id
		return_tokens_as_token_ids return_token_ids routed_experts_prompt_start return_token_offsets return_prompt_text
		return_mm_kwargs cache_salt kv_transfer_params ec_transfer_params vllm_xargs repetition_detection stream_interval
		enable_response_messages response_format best_of prompt_embeds logits_processors`,
	},
	{
		"SGLang, python/sglang/srt/entrypoints/openai/protocol.py (October 2026)",
		`return_hidden_states return_routed_experts routed_experts_start_len return_cached_tokens_details
		return_prompt_token_ids return_meta_info regex ebnf stop_regex no_stop_trim lora_path session_params
		separate_reasoning stream_reasoning max_dynamic_patch min_dynamic_patch use_audio_in_video images_config
		custom_logit_processor custom_params input_ids rid extra_key ngram_corpus_id bootstrap_host bootstrap_port
		bootstrap_room routed_dp_rank disagg_prefill_dp_rank data_parallel_rank data_parallel_rank_decode json_schema`,
	},
	{
		"llama.cpp, tools/server/README.md",
		`dynatemp_range dynatemp_exponent typical_p typ_p repeat_penalty repeat_last_n dry_multiplier dry_base
		dry_allowed_length dry_penalty_last_n dry_sequence_breakers xtc_probability xtc_threshold mirostat mirostat_tau
		mirostat_eta grammar grammar_lazy grammar_triggers n_predict n_keep n_indent n_discard n_probs n_cmpl min_keep
		t_max_predict_ms id_slot cache_prompt n_cache_reuse return_tokens return_progress samplers timings_per_token
		post_sampling_probs lora reasoning_format thinking_forced_open parse_tool_calls parallel_tool_calls top_n_sigma
		backend_sampling reasoning_budget_tokens reasoning_budget_message penalize_nl tfs_z sse_ping_interval speculative`,
	},
	{
		"Ollama, LM Studio, TGI, TabbyAPI, text-generation-webui, LMDeploy: sampling of their OpenAI endpoints",
		`think keep_alive options ttl draft_model num_ctx num_predict num_keep tfs eta_cutoff epsilon_cutoff top_a
		temperature_last smoothing_factor smoothing_curve sampler_priority guidance_scale negative_prompt do_sample
		decoder_input_details details watermark return_full_text truncate adapter_id banned_strings banned_tokens
		ban_eos_token add_bos_token auto_max_new_tokens max_new_tokens spaces_between penalty_range repetition_range
		prefix suffix`,
	},
}

// gatewayMembers are those that gateways have in every protocol of theirs.
var gatewayMembers = []namesOf{
	{
		"OpenRouter, src/models/{chatrequest,responsesrequest,messagesrequest}.ts of OpenRouterTeam/typescript-sdk",
		`models provider route transforms reasoning usage session_id trace cache_control debug image_config modalities
		stop_server_tools_when include_reasoning verbosity`,
	},
	{
		"LiteLLM, https://docs.litellm.ai/docs/proxy/user_keys, /docs/proxy/reliability, /docs/proxy/caching, /docs/proxy/guardrails",
		`litellm_metadata litellm_session_id litellm_trace_id litellm_call_id guardrails guardrail_config tags cache caching
		ttl s-maxage no-cache no-store no-log num_retries max_retries timeout stream_timeout request_timeout fallbacks
		context_window_fallbacks content_policy_fallbacks default_fallbacks disable_fallbacks drop_params
		additional_drop_params allowed_openai_params mock_response mock_testing_fallbacks mock_timeout mock_delay
		custom_llm_provider api_key api_version organization input_cost_per_token output_cost_per_token
		user_continue_message ensure_alternating_roles merge_reasoning_content_in_choices modify_params
		enable_json_schema_validation safety_settings safetySettings region_name aws_region_name vertex_project
		vertex_location`,
	},
}

// textMembers are those that OpenAI's Chat Completions and Completions have in common.
var textMembers = []namesOf{
	{
		"openai-go v3.95, CompletionNewParams and ChatCompletionNewParams; go-openai v1.43",
		`model stream stream_options frequency_penalty presence_penalty logit_bias logprobs top_logprobs max_tokens n seed
		stop temperature top_p user metadata store`,
	},
}

var chatMembers = knownMembers(textMembers, samplingMembers, gatewayMembers, []namesOf{
	{
		"openai-go v3.95, ChatCompletionNewParams",
		`audio function_call functions max_completion_tokens messages modalities moderation parallel_tool_calls prediction
		prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier
		service_tier tool_choice tools verbosity web_search_options`,
	},
	{
		"Azure OpenAI, https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference",
		`data_sources dataSources user_security_context enhancements`,
	},
	{"Mistral, ChatCompletionStreamRequest of mistralai/client-python", `random_seed prompt_mode safe_prompt min_tokens`},
	{
		"Groq, completion_create_params.py of groq/groq-python",
		`citation_options disable_tool_validation exclude_domains include_domains reasoning_format search_settings`,
	},
	{"xAI, https://docs.x.ai/docs/api-reference", `deferred search_parameters`},
	{
		"DeepSeek, Moonshot, GLM (api-docs.deepseek.com, platform.moonshot.ai, docs.z.ai)",
		`thinking partial tool_stream do_sample user_id sensitive_word_check`,
	},
	{
		"DashScope, https://www.alibabacloud.com/help/en/model-studio/qwen-api-reference",
		`enable_thinking thinking_budget preserve_thinking enable_search search_options enable_code_interpreter
		vl_high_resolution_images translation_options incremental_output result_format asr_options`,
	},
	{"MiniMax, https://platform.minimax.io/docs/api-reference", `mask_sensitive_info reasoning_split`},
	{
		"Perplexity, https://docs.perplexity.ai/api-reference/chat-completions-post: its models search, and do nothing else",
		`search_mode search_domain_filter search_recency_filter search_after_date_filter search_before_date_filter
		search_language_filter last_updated_after_filter last_updated_before_filter return_images return_related_questions
		disable_search enable_search_classifier image_domain_filter image_format_filter media_response language_preference
		num_search_results stream_mode`,
	},
	{
		"Fireworks and Together (docs.fireworks.ai, docs.together.ai)",
		`context_length_exceeded_behavior prompt_truncate_len prompt_truncate_length raw_output perf_metrics_in_response
		prompt_cache_isolation_key prompt_cache_max_len speculation echo_last reasoning_history safety_model compliance
		mirostat_target mirostat_lr`,
	},
	{"Cerebras, https://inference-docs.cerebras.ai/api-reference/chat-completions", `clear_thinking disable_reasoning`},
	{"GitHub Copilot, chat requests of microsoft/vscode-copilot-chat", `intent snippy`},
	{"gateways that answer in the background", `background`},
})

// extraMembers are those of extra_body, which a client wrote into the body although its SDK
// would have merged it. Some gateways merge it.
var extraMembers = knownMembers(samplingMembers, gatewayMembers, []namesOf{
	{"as of Chat Completions", `thinking enable_thinking thinking_budget enable_search search_options metadata reasoning_effort service_tier`},
})

var completionsMembers = knownMembers(textMembers, samplingMembers, gatewayMembers, []namesOf{
	{"openai-go v3.95, CompletionNewParams", `prompt`},
	{"Mistral, FIMCompletionStreamRequest of mistralai/client-python", `random_seed prompt_cache_key`},
	{"llama.cpp, Fireworks, DeepSeek: filling in the middle", `input_prefix input_suffix input_extra raw_output perf_metrics_in_response`},
})

var responsesMembers = knownMembers(samplingMembers, gatewayMembers, []namesOf{
	{
		"openai-go v3.95, ResponseNewParams",
		`access_programs background context_management conversation include input instructions max_output_tokens
		max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key
		prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options
		temperature text tool_choice tools top_logprobs top_p truncation user`,
	},
	{
		"the WebSocket mode, https://developers.openai.com/api/reference/resources/responses/websocket-events",
		`type event_id stream_id generate`,
	},
	{"Codex CLI 0.169, as it sends them", `client_metadata`},
	{
		"OpenAI-compatible servers that pass members of Chat Completions on",
		`frequency_penalty presence_penalty logit_bias seed stop n logprobs max_tokens max_completion_tokens reasoning_effort
		response_format`,
	},
	{"vLLM, ResponsesRequest", `previous_input_messages previous_response`},
	{"xAI, https://docs.x.ai/docs/api-reference", `search_parameters max_turns`},
})

var messagesMembers = knownMembers(samplingMembers, gatewayMembers, []namesOf{
	{
		"anthropic-sdk-go v1.84, MessageNewParams and BetaMessageNewParams",
		`cache_control compaction container context_management diagnostics fallback_credit_token fallbacks inference_geo
		max_tokens messages metadata model output_config output_format service_tier speed stop_sequences system temperature
		thinking tool_choice tools top_k top_p mcp_servers stream`,
	},
	{"@anthropic-ai/sdk 1.14, its tool runner; what it says is read", `thread`},
	{"Anthropic on Bedrock and Vertex AI, https://docs.claude.com/en/api/claude-on-amazon-bedrock", `anthropic_version anthropic_beta betas`},
	{
		"OpenAI-compatible servers that pass members of Chat Completions on",
		`user stop n seed frequency_penalty presence_penalty reasoning_effort stream_options prompt_cache_key
		prompt_cache_retention safety_identifier store logit_bias logprobs top_logprobs parallel_tool_calls`,
	},
})

var geminiMembers = knownMembers([]namesOf{
	{
		"genai v1.77, GenerateContentConfig and its converters; https://ai.google.dev/api/generate-content",
		`contents system_instruction generation_config safety_settings tools tool_config cached_content labels model stream
		service_tier store model_armor_config output_config response_schema response_mime_type`,
	},
	{
		"Code Assist, packages/core/src/code_assist/converter.ts of google-gemini/gemini-cli",
		`project user_prompt_id request session_id request_id request_type user_agent enabled_credit_types`,
	},
}).inBothCases()

var converseMembers = knownMembers([]namesOf{
	{
		"bedrockruntime v1.63, ConverseStreamInput",
		`model modelId stream messages system inferenceConfig toolConfig guardrailConfig outputConfig performanceConfig
		promptVariables requestMetadata serviceTier additionalModelRequestFields additionalModelResponseFieldPaths`,
	},
})

// converseFields are those of additionalModelRequestFields, which Bedrock passes to the model.
var converseFields = knownMembers(textMembers, samplingMembers, []namesOf{
	{
		"https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html",
		`inferenceConfig reasoningConfig reasoning_config reasoning_effort thinking anthropic_version anthropic_beta top_k k p
		output_config service_tier context_management max_completion_tokens stop_sequences tool_choice`,
	},
})

var ollamaMembers = knownMembers([]namesOf{
	{
		"ollama v0.17, api.ChatRequest and api.GenerateRequest",
		`model stream messages tools format options keep_alive think truncate shift logprobs top_logprobs prompt suffix
		system template context raw images width height steps _debug_render_only`,
	},
})

var cohereMembers = knownMembers([]namesOf{
	{
		"chat_stream of cohere-ai/cohere-python, src/cohere/v2/client.py",
		`model stream messages tools strict_tools documents citation_options response_format safety_mode max_tokens
		stop_sequences temperature seed frequency_penalty presence_penalty k p logprobs tool_choice thinking priority`,
	},
})

var mistralMembers = knownMembers([]namesOf{
	{
		"Conversation{,Append,Restart}StreamRequest of mistralai/client-python",
		`model inputs stream store handoff_execution instructions tools completion_args guardrails name description metadata
		agent_version from_entry_id tool_confirmations`,
	},
})

var interactionsMembers = knownMembers([]namesOf{
	{
		"genai v1.77, interactions.CreateModelInteraction",
		`model input stream background previous_interaction_id tools generation_config system_instruction response_format
		response_mime_type response_modalities safety_settings service_tier store labels webhook_config`,
	},
})

// realtimeMembers are those of the session of a session.update and of the response of a
// response.create. A prompt, which is stored on the server, may offer tools.
var realtimeMembers = knownMembers([]namesOf{
	{
		"openai-go v3.95, realtime.RealtimeSessionCreateRequestParam and RealtimeResponseCreateParamsParam",
		`audio conversation include input instructions max_output_tokens metadata model output_modalities parallel_tool_calls
		reasoning tool_choice tools tracing truncation type`,
	},
	{
		"the beta, which Azure OpenAI and others still have: https://learn.microsoft.com/en-us/azure/ai-foundry/openai/realtime-audio-reference",
		`modalities voice input_audio_format output_audio_format input_audio_transcription input_audio_noise_reduction
		turn_detection temperature max_response_output_tokens speed client_secret expires_at id object`,
	},
})
