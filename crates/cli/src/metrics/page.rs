//! State shared by all outputs: the latest families, and the exporter's own error counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use live::{Family, MetricKind, Sample, Value};
use parking_lot::Mutex;

use super::text::Format;

/// The families of one time; their texts are made when first requested.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) families: Vec<Family>,
    prometheus: OnceLock<String>,
    open_metrics: OnceLock<String>,
}

impl Page {
    pub(super) fn new(families: Vec<Family>) -> Self {
        Self { families, ..Self::default() }
    }

    pub(super) fn text(&self, format: Format) -> &str {
        let text = match format {
            Format::Prometheus => &self.prometheus,
            Format::OpenMetrics => &self.open_metrics,
        };
        text.get_or_init(|| format.write(&self.families))
    }
}

/// The latest page; `None` before the first interval ends.
pub(super) type Latest = Mutex<Option<Arc<Page>>>;

#[derive(Debug, Default)]
pub(super) struct OutputErrors {
    pub(super) textfile: AtomicU64,
    pub(super) otlp: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) refused: AtomicU64,
}

impl OutputErrors {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let sample = |output: &'static str, counter: &AtomicU64| Sample {
            labels: vec![("output", output.to_owned())],
            value: Value::Count(counter.load(Ordering::Relaxed)),
        };
        let counter = |name: &'static str, help: &'static str, samples| Family {
            name: name.into(),
            help: help.into(),
            unit: "",
            kind: MetricKind::Counter,
            samples,
        };
        vec![
            counter(
                "nccl_otf2_output_errors",
                "Text files that could not be written, collectors that did not take metrics, requests that were refused",
                vec![sample("textfile", &self.textfile), sample("otlp", &self.otlp), sample("listen", &self.refused)],
            ),
            counter(
                "nccl_otf2_output_dropped",
                "Intervals that were not sent because the collector was behind",
                vec![sample("otlp", &self.dropped)],
            ),
        ]
    }
}
