//! The page: its sources, which are embedded in the tool, and the data of an archive.

use std::fmt::Write as _;

use analysis::Filter;
use analysis::results::{Comparison, Report};
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use crate::encoding::pack;
use crate::excerpt::LeftOut;
use crate::timeline::Timeline;

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = concat!(include_str!("../page/vendor/uPlot.min.css"), include_str!("../page/page.css"));
const UPLOT: &str = concat!(
    "/*! uPlot 1.6.32, https://github.com/leeoniya/uPlot\n",
    include_str!("../page/vendor/uPlot.LICENSE"),
    "*/\n",
    include_str!("../page/vendor/uPlot.iife.min.js")
);

macro_rules! modules {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../page/js/", $name, ".js")))),*] };
}

/// The script's modules: the page's import map names them, so that they stay modules in a single file.
const MODULES: [(&str, &str); 26] = modules!(
    "diff" "dom" "encoding" "format" "html" "main" "operations" "pairs" "path" "plot" "program" "sections" "skew"
    "timeline/controls" "timeline/draw" "timeline/palette" "timeline/panel" "timeline/related" "timeline/rows"
    "timeline/search" "timeline/selection" "timeline/store" "timeline/timeline" "timeline/view" "verdict" "wires"
);

/// What the script is given of one run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Model<'a> {
    pub(super) title: &'a str,
    pub(super) tool: &'a str,
    pub(super) part: Part<'a>,
    pub(super) report: &'a Report,
    pub(super) timeline: &'a Timeline,
    /// How many rows of which tables of the report are not in the page.
    pub(super) left_out: LeftOut,
}

/// The time and the ranks that a page is about, as they were asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Part<'a> {
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    ranks: &'a [u32],
}

impl<'a> Part<'a> {
    pub(super) fn of(filter: &'a Filter) -> Self {
        Self { from_ns: filter.from_ns, to_ns: filter.to_ns, ranks: &filter.ranks }
    }
}

/// What the script is given of two runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DiffModel<'a> {
    pub(super) title: &'a str,
    pub(super) tool: &'a str,
    pub(super) comparison: &'a Comparison,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "a type for its schema")]
enum AnyModel<'a> {
    Run(Model<'a>),
    Comparison(DiffModel<'a>),
}

pub(super) fn model_schema() -> Schema {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<AnyModel<'_>>()
}

/// Makes the page of a model. `data`: names and base64 contents of data elements.
pub(super) fn page(model: &impl Serialize, data: &[(String, String)]) -> Result<String> {
    let mut elements = element("model", &pack(&serde_json::to_vec(model).context("cannot write JSON")?)?);
    for (name, text) in data {
        elements.push_str(&element(name, text));
    }
    let mut map = String::from("{\"imports\":{");
    for (at, (name, source)) in MODULES.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(map, "{comma}\n\"#page/{name}\":\"data:text/javascript;base64,{}\"", STANDARD.encode(source))?;
    }
    map.push_str("\n}}");
    let parts =
        [("/*{{style}}*/", STYLE), ("<!--{{data}}-->", &elements), ("/*{{uplot}}*/", UPLOT), ("/*{{modules}}*/", &map)];
    let mut page = String::with_capacity(PAGE.len() + parts.iter().map(|(_, part)| part.len()).sum::<usize>());
    let mut rest = PAGE;
    for (mark, part) in parts {
        let (before, after) = rest.split_once(mark).with_context(|| format!("the page has no {mark}"))?;
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

fn element(name: &str, text: &str) -> String {
    format!("<script type=\"text/plain\" id=\"data-{name}\">{text}</script>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_module() {
        let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page/js");
        let mut names = Vec::new();
        for folder in ["", "timeline/"] {
            for file in std::fs::read_dir(script.join(folder)).expect("a folder of the script") {
                let name = file.expect("a file").file_name().into_string().expect("a name");
                names.extend(name.strip_suffix(".js").map(|name| format!("{folder}{name}")));
            }
        }
        names.sort_unstable();
        assert_eq!(MODULES.map(|(name, _)| name).as_slice(), names);
    }
}
