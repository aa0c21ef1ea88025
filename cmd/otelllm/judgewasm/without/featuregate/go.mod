module go.opentelemetry.io/collector/featuregate

go 1.26.0
