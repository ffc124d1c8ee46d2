//! The findings, for programs (`docs/REFERENCE.md` §9) and for people.

use schemars::JsonSchema;
use serde::Serialize;

use crate::print::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    Ok,
    Note,
    /// Something may be missing, slow or wrong.
    Warning,
    /// Nothing is recorded, or not what was requested.
    Problem,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Finding {
    pub(super) level: Level,
    pub(super) topic: &'static str,
    pub(super) text: String,
    pub(super) advice: Option<String>,
}

/// All findings; equal sentences appear once.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, topic: &'static str, text: impl Into<String>, advice: &str) {
        let advice = Some(advice.to_owned()).filter(|advice| !advice.is_empty());
        let finding = Finding { level, topic, text: text.into(), advice };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    pub(super) fn ok(&mut self, topic: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, topic, text, "");
    }

    pub(super) fn note(&mut self, topic: &'static str, text: impl Into<String>, advice: &str) {
        self.add(Level::Note, topic, text, advice);
    }

    pub(super) fn warning(&mut self, topic: &'static str, text: impl Into<String>, advice: &str) {
        self.add(Level::Warning, topic, text, advice);
    }

    pub(super) fn problem(&mut self, topic: &'static str, text: impl Into<String>, advice: &str) {
        self.add(Level::Problem, topic, text, advice);
    }

    /// Builds the report: worst findings first, otherwise in the order in which they were found.
    pub(super) fn report(mut self, nccl: Vec<NcclRow>, ready: String) -> Report {
        nccl_events::sort::sort_by_key(&mut self.0, |finding| std::cmp::Reverse(finding.level));
        let count = |level: Level| self.0.iter().filter(|finding| finding.level == level).count();
        let worst = self.0.first().map_or(Level::Ok, |finding| finding.level);
        let text = match self.0.first() {
            Some(first) if worst >= Level::Warning => {
                let more = count(worst) - 1;
                let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                format!("{}: {}{more}", worst.name().to_uppercase(), first.text)
            }
            _ => format!("READY: {ready}"),
        };
        Report { format: 1, level: worst, text, nccl, findings: self.0 }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NcclRow {
    pub(super) path: String,
    pub(super) found_by: String,
    pub(super) is_rccl: bool,
    pub(super) release: String,
    pub(super) cuda: Option<String>,
    /// The version of the profiler table that it would call; 0 for none.
    pub(super) table: u8,
    /// The names under which it would look for a profiler plugin, in this order.
    pub(super) plugin_names: Vec<String>,
    pub(super) plugin: Option<String>,
    pub(super) profiler: Option<&'static str>,
    pub(super) blind_spots: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    pub(super) format: u32,
    pub(super) level: Level,
    pub(super) text: String,
    pub(super) nccl: Vec<NcclRow>,
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn text(&self, all: bool) -> Text {
        let mut text = Text::default();
        text.line(&self.text);
        text.line("");
        for Finding { level, topic, text: sentence, advice } in &self.findings {
            text.line(format_args!("{:<8} {topic}: {sentence}", level.name()));
            if let Some(advice) = advice {
                text.line(format_args!("         → {advice}"));
            }
        }
        let mut shown: Vec<&str> = Vec::new();
        for row in &self.nccl {
            if row.blind_spots.is_empty() || shown.contains(&row.release.as_str()) {
                continue;
            }
            shown.push(&row.release);
            let n = row.blind_spots.len();
            if !all {
                text.paragraph(format_args!("NCCL {} does not report {n} things to any profiler (--all)", row.release));
                continue;
            }
            text.paragraph(format_args!("NCCL {} does not report:", row.release));
            for spot in &row.blind_spots {
                text.line(format_args!("  {spot}"));
            }
        }
        text
    }
}
