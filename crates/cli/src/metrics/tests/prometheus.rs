//! Prometheus and its `promtool` read what is served.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use whole_plugin::machine::{has, skip};
use whole_plugin::process::{start, wait_for};

use super::scrapes::serve;
use super::{free_address, ours, say};
use crate::metrics::page::Page;
use crate::metrics::text::Format;

fn is_here() -> bool {
    let is_here = has("promtool") && has("prometheus");
    if !is_here {
        skip("there is no prometheus with promtool (cargo xtask test installs it)");
    }
    is_here
}

#[test]
fn promtool_is_content() {
    if !is_here() {
        return;
    }
    let check = |text: &str| say(Command::new("promtool").args(["check", "metrics"]), text);
    let text = Format::Prometheus.write(&ours());
    assert_eq!(check(&text), (true, String::new()), "{text}");
    // It can say otherwise.
    assert!(!check(&text.replace("# HELP nccl_records_total", "# HELP nccl_records")).0);
}

/// The series of a text: name and labels as Prometheus writes them, and the value.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let mut labels: Vec<&str> = labels.trim_end_matches('}').split("\",").filter(|it| !it.is_empty()).collect();
            labels.sort_unstable();
            let labels: Vec<String> = labels
                .iter()
                .map(|it| it.trim_end_matches('"').replace("\\\"", "\"").replace(r"\n", "\n").replace(r"\\", "\\"))
                .collect();
            (format!("{name} {}", labels.join(",")), value.parse().expect("a number"))
        })
        .collect()
}

fn answered(answer: &str) -> BTreeMap<String, f64> {
    let answer: Value = serde_json::from_str(answer).expect("JSON");
    let results = answer["data"]["result"].as_array().expect("results");
    results
        .iter()
        .map(|result| {
            let labels = result["metric"].as_object().expect("labels");
            let own = labels.iter().filter(|(name, _)| !["__name__", "instance", "job"].contains(&name.as_str()));
            let own: Vec<String> =
                own.map(|(name, value)| format!("{name}=\"{}", value.as_str().expect("a label"))).collect();
            let value = result["value"][1].as_str().expect("a value");
            (
                format!("{} {}", labels["__name__"].as_str().expect("a name"), own.join(",")),
                value.parse().expect("a number"),
            )
        })
        .collect()
}

/// Prometheus reads every sample with its labels and its value as it was served.
#[test]
fn prometheus_answers_what_was_served() {
    if !is_here() {
        return;
    }
    let (address, latest, _troubles) = serve(None);
    latest.set(Arc::new(Page::new(ours())));
    let folder = tempfile::tempdir().expect("a directory");
    let config = folder.path().join("prometheus.yml");
    let scrape = format!(
        "scrape_configs: [{{job_name: nccl, scrape_interval: 1s, static_configs: [{{targets: ['{address}']}}]}}]\n"
    );
    fs::write(&config, scrape).expect("written");
    let own = free_address();
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", config.display())).arg(format!("--web.listen-address={own}"));
    let server = start(prometheus.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display())));
    let found = wait_for("series in Prometheus", || {
        let url = format!("http://{own}/api/v1/query?query=%7B__name__%3D~%22nccl.*%22%7D");
        let text = ureq::get(&url).call().ok()?.body_mut().read_to_string().ok()?;
        let found = answered(&text);
        (!found.is_empty()).then_some(found)
    });
    server.signal("TERM");
    let _ended = server.wait(whole_plugin::process::LIMIT);
    assert_eq!(found, series(&Format::Prometheus.write(&ours())));
}
