//! Prometheus's text format 0.0.4, and OpenMetrics 1.0.

use std::fmt::Write as _;

use live::{Buckets, Family, Label, MetricKind, Value};
use nccl_events::visible;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Prometheus,
    OpenMetrics,
}

impl Format {
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    pub(super) fn write(self, families: &[Family]) -> String {
        let mut out = Text(String::new());
        for family in families {
            out.family(family, self);
        }
        if self == Self::OpenMetrics {
            out.0.push_str("# EOF\n");
        }
        out.0
    }
}

/// The name of a unit in Prometheus, as OpenTelemetry's collector appends it to metric names.
fn unit(unit: &str) -> &str {
    match unit {
        "us" => "microseconds",
        "MB/s" => "MB_per_second",
        unit => unit,
    }
}

/// The name of a family, with its unit as a suffix.
pub(super) fn name(family: &Family) -> String {
    let unit = unit(family.unit);
    let ends = family.name.ends_with(unit);
    if unit.is_empty() || ends { family.name.to_string() } else { format!("{}_{unit}", family.name) }
}

struct Text(String);

impl Text {
    fn family(&mut self, family: &Family, format: Format) {
        let name = name(family);
        let total = if family.kind == MetricKind::Counter { "_total" } else { "" };
        // In OpenMetrics, a counter's metadata omits `_total`.
        let described = if format == Format::Prometheus { format!("{name}{total}") } else { name.clone() };
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {described} {}", escaped(&family.help)));
        self.line(format_args!("# TYPE {described} {kind}"));
        if format == Format::OpenMetrics && !family.unit.is_empty() {
            self.line(format_args!("# UNIT {described} {}", unit(family.unit)));
        }
        for sample in &family.samples {
            let labels = labels(&sample.labels, None);
            match &sample.value {
                Value::Number(number) => self.line(format_args!("{name}{total}{labels} {}", float(*number))),
                Value::Count(count) => self.line(format_args!("{name}{total}{labels} {count}")),
                Value::Histogram(histogram) => self.histogram(&name, &sample.labels, histogram),
            }
        }
    }

    fn histogram(&mut self, name: &str, own: &[Label], histogram: &Buckets) {
        let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
        let mut so_far = 0;
        for (bound, count) in bounds.zip(&histogram.counts) {
            so_far += count;
            self.line(format_args!("{name}_bucket{} {so_far}", labels(own, Some(bound))));
        }
        let labels = labels(own, None);
        self.line(format_args!("{name}_sum{labels} {}", float(histogram.sum)));
        self.line(format_args!("{name}_count{labels} {so_far}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _written = writeln!(self.0, "{line}");
    }
}

/// A number as both formats write it. OpenMetrics requires bounds such as `1.0`.
fn float(number: f64) -> String {
    if number.is_infinite() { if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned() } else { format!("{number:?}") }
}

fn labels(labels: &[Label], bound: Option<f64>) -> String {
    let mut all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    all.extend(bound.map(|bound| format!("le=\"{}\"", float(bound))));
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// A page may be printed on a terminal, and a collector may print its labels.
fn escaped(text: &str) -> String {
    let line = |line: &str| visible(line).replace('\\', r"\\").replace('"', "\\\"");
    text.split('\n').map(line).collect::<Vec<String>>().join(r"\n")
}
