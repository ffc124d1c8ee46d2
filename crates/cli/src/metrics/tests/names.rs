//! Checks that names, labels and units are those used by documentation and dashboards.

use std::collections::BTreeSet;
use std::fs;

use crate::metrics::http;
use crate::metrics::http::Format;
use crate::metrics::tests::{everything, ours};
use live::{Families, Family, MetricKind, Names};
use serde_json::Value;
use whole_plugin::built::root;
use whole_plugin::pages;

fn name(family: &Family) -> String {
    http::name(family) + if family.kind == MetricKind::Counter { "_total" } else { "" }
}

#[test]
fn the_reference_has_all_metrics() {
    let families = ours();
    let mut last = String::new();
    let rows = families.iter().map(|family| {
        let labels = family.samples[0].labels.iter().map(|(name, _)| *name);
        let labels: Vec<String> = labels
            .filter(|name| !["host", "job_id", "cluster"].contains(name))
            .map(|text| format!("`{text}`"))
            .collect();
        let kind = format!("{:?}", family.kind).to_lowercase();
        let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
        let shown = if labels == last { "" } else { &labels };
        let row = format!("| `{}` | {kind} | {shown} | {} |\n", name(family), family.help);
        last = labels;
        row
    });
    let table = format!("| metric | type | labels | meaning |\n|---|---|---|---|\n{}", rows.collect::<String>());
    pages::compare("REFERENCE.md", "metrics", &table);
}

fn asked_for(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .filter(|word| word.starts_with("nccl_"))
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let families = ours();
    let is_known = |metric: &str| {
        families.iter().any(|family| match (family.kind, metric.strip_prefix(&name(family))) {
            (MetricKind::Histogram, Some(end)) => ["_bucket", "_sum", "_count"].contains(&end),
            (_, end) => end == Some(""),
        })
    };
    let labels = families.iter().flat_map(|family| &family.samples).flat_map(|sample| &sample.labels);
    let labels: BTreeSet<&str> = labels.map(|(name, _)| *name).collect();
    let dashboard = fs::read_to_string(root().join("docs/grafana/nccl.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36) && dashboard["title"].is_string(), "not a dashboard");
    let (mut ids, mut expressions) = (BTreeSet::new(), 0);
    for panel in dashboard["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64()), "two panels with the id {}", panel["id"]);
        assert!(["x", "y", "w", "h"].iter().all(|side| panel["gridPos"][side].is_u64()), "{panel:#}");
        if panel["type"] == "row" {
            continue;
        }
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let mut metrics = asked_for(expression).peekable();
            assert!(metrics.peek().is_some(), "{expression}");
            metrics.for_each(|metric| assert!(is_known(metric), "{metric} in {expression}"));
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            let shown = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            shown.for_each(|label| assert!(labels.contains(label), "{label} in {legend}"));
            assert_eq!(target["datasource"]["uid"], "${datasource}");
            expressions += 1;
        }
    }
    assert!(expressions >= 10, "{expressions}");
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        let query = variable["query"].as_str().or(variable["query"]["query"].as_str()).expect("a query");
        asked_for(query).for_each(|metric| assert!(is_known(metric), "{metric} in {query}"));
    }
}

fn lines(names: Names) -> Vec<String> {
    let mut families = Families::new(names);
    let _earlier = families.collect(&everything());
    let text = Format::Prometheus.write(&families.collect(&everything()));
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn the_inspector_s_dashboards_find_what_they_ask_for() {
    let mut wanted = Vec::new();
    let common = |rank| {
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "version=\"nccl-otf2-{version}\",cluster=\"alps\",slurm_job_id=\"4711\",node=\"node7\",gpu=\"rank{rank}\",\
             comm_name=\"a \\\"name\\\"\\\\\\n\",n_nodes=\"1\",nranks=\"2\","
        )
    };
    let all = "collective=\"AllReduce\",message_size=\"4-5MB\",algo_proto=\"RING_LL\"";
    let sent = "p2p_operation=\"Send\",message_size=\"4-5MB\"";
    for (metric, value, ranks, labels) in [
        ("nccl_bus_bandwidth_gbs", "5.0", 0..2, all),
        ("nccl_collective_exec_time_microseconds", "2000.0", 0..2, all),
        ("nccl_p2p_bus_bandwidth_gbs", "5.0", 0..1, sent),
        ("nccl_p2p_exec_time_microseconds", "2000.0", 0..1, sent),
    ] {
        wanted.extend(ranks.map(|rank| format!("{metric}{{{}{labels}}} {value}", common(rank))));
    }
    assert_eq!(lines(Names::Inspector), wanted);
}

#[test]
fn opentelemetry_s_dashboards_find_what_they_ask_for() {
    let lines = lines(Names::Otel);
    let place = "communicator=\"a \\\"name\\\"\\\\\\n\",comm_nranks=\"2\",hostname=\"node7\"";
    let operation = "operation=\"Comma \\\"name\\\"\\\\\\n_AllReduce_RING_LL\"";
    let link = "source_rank=\"0\",dest_rank=\"1\"";
    for wanted in [
        format!("nccl_profiler_collective_bytes_total{{{place},{operation},rank=\"1\"}} 29360128"),
        format!("nccl_profiler_collective_time_microseconds_bucket{{{place},{operation},rank=\"0\",le=\"1000.0\"}} 3"),
        format!("nccl_profiler_collective_time_microseconds_sum{{{place},{operation},rank=\"0\"}} 250000.0"),
        format!("nccl_profiler_collective_count_sum{{{place},{operation},rank=\"0\"}} 7.0"),
        format!(
            "nccl_profiler_p2p_bytes_sum{{{place},operation=\"Send Pipeline0→Pipeline1 (Rank0)\",rank=\"0\"}} 29360128.0"
        ),
        format!("nccl_profiler_rank_bytes_total{{{place},{link}}} 1048576"),
        // Values over two intervals.
        format!("nccl_profiler_rank_latency_microseconds_sum{{{place},{link}}} 25.0"),
        format!("nccl_profiler_rank_rate_MB_per_second_count{{{place},{link}}} 2"),
        format!("nccl_profiler_transfer_size_bytes_sum{{{place},{link},channel=\"3\"}} 1048576.0"),
        format!("nccl_profiler_transfer_time_microseconds_count{{{place},{link},channel=\"3\"}} 80"),
    ] {
        assert!(lines.contains(&wanted), "{wanted}\n{lines:#?}");
    }
}
