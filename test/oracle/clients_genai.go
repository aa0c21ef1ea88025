package main

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/genai"
)

func genaiStream(url string, hc *http.Client) (ask, error) {
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: "k", HTTPClient: hc, HTTPOptions: genai.HTTPOptions{BaseURL: url},
	})
	if err != nil {
		return nil, err
	}
	history := genai.Text(question)
	return func(ctx context.Context) (d delivery) {
		books := callsOf[string](&d)
		candidates := map[int32]bool{} // whether finished, by index
		serial, open := 0, ""          // number of calls; the call whose arguments are incomplete
		for response, err := range c.Models.GenerateContentStream(ctx, model, history, nil) {
			if err != nil {
				d.err = err
				break
			}
			if f := response.PromptFeedback; f != nil && f.BlockReason != "" {
				d.finish, candidates[-1] = string(f.BlockReason), true
			}
			for _, candidate := range response.Candidates {
				candidates[candidate.Index] = candidates[candidate.Index] || candidate.FinishReason != ""
				if candidate.FinishReason != "" {
					d.finish = string(candidate.FinishReason)
				}
				if candidate.Content == nil {
					continue
				}
				for _, part := range candidate.Content.Parts {
					switch {
					case part.Thought:
						d.thought(part.Text)
					case part.ExecutableCode != nil, part.CodeExecutionResult != nil:
						d.provider++
					default:
						d.wrote(part.Text)
					}
					call := part.FunctionCall
					if call == nil {
						continue
					}
					if call.Name != "" {
						serial++
						open = strconv.Itoa(serial)
						books.begin(open)
					}
					if call.WillContinue == nil || !*call.WillContinue {
						books.completed(only(open))
						books.handOver(only(open))
					}
				}
			}
		}
		d.finished = len(candidates) > 0
		for _, finished := range candidates {
			d.finished = d.finished && finished
		}
		books.end()
		return d
	}, nil
}
