package main

import (
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

func bedrockConverse(url string, hc *http.Client) (ask, error) {
	c := bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url), HTTPClient: hc, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "k", SecretAccessKey: "s"}, nil
		}),
	})
	input := &bedrockruntime.ConverseStreamInput{ModelId: aws.String(model), Messages: []types.Message{{
		Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: question}},
	}}}
	return func(ctx context.Context) (d delivery) {
		output, err := c.ConverseStream(ctx, input)
		if err != nil {
			d.err = err
			return d
		}
		stream := output.GetStream()
		defer stream.Close()
		books := callsOf[int32](&d)
		for event := range stream.Events() {
			switch event := event.(type) {
			case *types.ConverseStreamOutputMemberContentBlockStart:
				if use, ok := event.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
					if use.Value.Type == types.ToolUseTypeServerToolUse {
						d.provider++
					} else {
						books.begin(aws.ToInt32(event.Value.ContentBlockIndex))
					}
				}
			case *types.ConverseStreamOutputMemberContentBlockDelta:
				switch delta := event.Value.Delta.(type) {
				case *types.ContentBlockDeltaMemberText:
					d.wrote(delta.Value)
				case *types.ContentBlockDeltaMemberReasoningContent:
					if thought, ok := delta.Value.(*types.ReasoningContentBlockDeltaMemberText); ok {
						d.thought(thought.Value)
					}
				case *types.ContentBlockDeltaMemberToolUse:
					if at := aws.ToInt32(event.Value.ContentBlockIndex); books.open[at] != nil {
						books.piece(at, aws.ToString(delta.Value.Input))
					}
				}
			case *types.ConverseStreamOutputMemberContentBlockStop:
				books.completed(only(aws.ToInt32(event.Value.ContentBlockIndex)))
			case *types.ConverseStreamOutputMemberMessageStop:
				d.finish, d.finished = string(event.Value.StopReason), event.Value.StopReason != ""
				books.handOver(all[int32])
			}
		}
		d.err = stream.Err()
		books.end()
		return d
	}, nil
}
