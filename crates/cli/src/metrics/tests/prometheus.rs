//! Prometheus's `promtool` checks what is served; `tests/metrics.rs` runs Prometheus itself.

use std::process::Command;

use crate::metrics::http::Format;
use crate::metrics::tests::{ours, run_with_input};
use whole_plugin::machine::{has, skip};

#[test]
fn promtool_is_content() {
    if !has("promtool") {
        return skip("there is no promtool (cargo xtask test installs it)");
    }
    let check = |text: &str| run_with_input(Command::new("promtool").args(["check", "metrics"]), text);
    let text = Format::Prometheus.write(&ours());
    assert_eq!(check(&text), (true, String::new()), "{text}");
    // The check can fail.
    assert!(!check(&text.replace("# HELP nccl_records_total", "# HELP nccl_records")).0);
}
