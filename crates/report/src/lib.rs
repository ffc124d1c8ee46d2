//! The report: one run, or the comparison of two, as a single HTML file that loads nothing from a network.
//!
//! ```text
//!  Analysis ─► cut                                   tables of the report that are too long for a page, cut
//!  Trace, Analysis ─► timeline ─► chunks of events ─┬► page         the page: its sources (`page/`), the model, data
//!                                                   └► write_files  the rest, as scripts in a folder beside it
//! ```

#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io, mem};

use crate::timeline::chunks::pack;
use crate::timeline::{At, Chunks, Timeline, UncutTimeline};
use analysis::read::{Kernels, Launches};
use analysis::results::{Comparison, Messages, OperationClass, Report};
use analysis::{Analysis, Filter, Trace, try_in_parallel};
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hang::Report as HangReport;
use nccl_events::Progress;
use nccl_events::sort::Gather;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

mod timeline;

/// The size of a page without events: its uncompressed sources, and names and attributes.
const FIXED_BYTES: usize = 600_000;
/// Estimate of the bytes per event in the page, with the ids that link events. Few archives need more.
const EVENT_BYTES: usize = 7;
/// The timeline keeps at least this many events, even if the page may be too small for all of them.
const LEAST_EVENTS: usize = 16_384;
/// If less space than this is left, no chunk fits: a chunk has some hundred kilobytes.
const LEAST_BYTES: usize = 20_000;

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The page; an existing file is replaced.
    pub output: &'a Path,
    pub title: &'a str,
    pub tool: &'a str,
    /// Selects the time and the ranks that the page shows.
    pub filter: &'a Filter,
    pub most_bytes: usize,
    /// Whether events that do not fit are written into a folder beside the page.
    pub keeps_all: bool,
}

#[derive(Debug)]
pub struct WrittenReport {
    pub bytes: usize,
    pub events: usize,
    pub events_in_page: usize,
    /// The folder beside the page, if there is one, and the number of files in it.
    pub folder: Option<PathBuf>,
    pub files: usize,
}

/// Writes the page of one run. Memory is that of the analysis's operations and of the events in the page, not of all.
pub fn write(
    trace: &Trace,
    mut analysis: Analysis,
    hang: Option<&HangReport>,
    options: Options<'_>,
    progress: &dyn Progress,
) -> Result<WrittenReport> {
    let tables = &mut analysis.tables;
    (tables.kernels, tables.launches) = (Kernels::default(), Launches::default());
    analysis.late.clear();
    let left_out = cut(&mut analysis.report, options.most_bytes / 4)?;
    let fixed = FIXED_BYTES + packed_bytes(&analysis.report)?;
    let room = options.most_bytes.saturating_sub(fixed);
    let most = if options.keeps_all { usize::MAX } else { (room / EVENT_BYTES).max(LEAST_EVENTS) };
    let mut made = UncutTimeline::read(trace, &analysis, options.filter, most as u64, progress)?;
    let Analysis { report, tables, instances, pairing, .. } = analysis;
    drop((tables, instances, pairing));
    made.cut();
    progress.begin("page", 1);
    let overview = pack(&made.cells)?;
    let room = room.saturating_sub(overview.len());
    let mut data = vec![("overview".to_owned(), overview)];
    let moments: Vec<u64> = report.anomalies.iter().map(|anomaly| anomaly.start_ns).collect();
    put_into_page(&mut made.chunks, &moments, room, &mut data)?;
    let folder = if options.keeps_all { write_files(options.output, &mut made.chunks)? } else { None };
    let in_page = made.chunks.all.iter().filter(|chunk| chunk.at == At::Page);
    let events_in_page = in_page.map(|chunk| chunk.events).sum::<usize>();
    let events = usize::try_from(made.events)?;
    let files = made.chunks.all.iter().filter(|chunk| chunk.at == At::File).count();
    let name = folder.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let timeline = made.finish(name)?;
    let part = Part::from_filter(options.filter);
    let (title, tool) = (options.title, options.tool);
    let model = Model { title, tool, part, report: &report, hang, timeline: &timeline, left_out };
    let page = page(&model, &data)?;
    replace(options.output, page.as_bytes())?;
    progress.end();
    Ok(WrittenReport { bytes: page.len(), events, events_in_page, folder, files })
}

/// Writes the page of two runs; returns its size.
pub fn write_comparison(comparison: &Comparison, output: &Path, title: &str, tool: &str) -> Result<usize> {
    let page = page(&DiffModel { title, tool, comparison }, &[])?;
    replace(output, page.as_bytes())?;
    Ok(page.len())
}

/// The JSON Schema of what the page's script is given: `cargo xtask page` makes `page/model.d.ts` of it.
pub fn model_schema() -> Schema {
    schema_of_model()
}

/// Puts the most important chunks into the page, as many as fit.
fn put_into_page(
    chunks: &mut Chunks,
    moments: &[u64],
    mut room: usize,
    data: &mut Vec<(String, String)>,
) -> Result<()> {
    for some in chunks.by_weight(moments).chunks(rayon::current_num_threads().max(1) * 4) {
        let texts: Vec<String> = try_in_parallel(some, |at| chunks.text(*at))?;
        for (at, text) in some.iter().zip(texts) {
            if text.len() <= room {
                room -= text.len();
                chunks.all[*at].at = At::Page;
                data.push((format!("chunk-{at}"), text));
            }
        }
        if room < LEAST_BYTES {
            break;
        }
    }
    Ok(())
}

/// Writes the other chunks beside the page, as scripts: a page opened from a file can load nothing else.
fn write_files(output: &Path, chunks: &mut Chunks) -> Result<Option<PathBuf>> {
    let rest: Vec<usize> = (0..chunks.all.len()).filter(|at| chunks.all[*at].at == At::None).collect();
    if rest.is_empty() {
        return Ok(None);
    }
    let mut folder = output.with_extension("").into_os_string();
    folder.push("-files");
    let folder = PathBuf::from(folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    try_in_parallel(&rest, |at| {
        let script = format!("nccl_otf2_chunk({at},\"{}\")", chunks.text(*at)?);
        replace(&folder.join(format!("chunk-{at}.js")), script.as_bytes())
    })?;
    for at in rest {
        chunks.all[at].at = At::File;
    }
    Ok(Some(folder))
}

/// Writes atomically: a temporary file, which must not be there yet, then rename.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let failed = || format!("cannot write {}; -o names another file", path.display());
    let made = File::create_new(&part).with_context(failed)?;
    (&made)
        .write_all(bytes)
        .and_then(|()| fs::rename(&part, path))
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .with_context(failed)
}

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
const MODULES: [(&str, &str); 29] = modules!(
    "diff" "dom" "encoding" "format" "hang" "html" "main" "operations" "pairs" "path" "plot" "program" "sections" "skew"
    "timeline/controls" "timeline/draw" "timeline/measure" "timeline/moment" "timeline/palette" "timeline/panel"
    "timeline/related" "timeline/rows" "timeline/search" "timeline/selection" "timeline/store" "timeline/timeline" "timeline/view" "verdict" "wires"
);

/// The data of one run for the page's script.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Model<'a> {
    pub(crate) title: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) part: Part<'a>,
    pub(crate) report: &'a Report,
    /// The verdict of a job that hung, with who waits where.
    pub(crate) hang: Option<&'a HangReport>,
    pub(crate) timeline: &'a Timeline,
    /// The number of rows that are not in the page, keyed by table of the report.
    pub(crate) left_out: LeftOut,
}

/// The time and the ranks of a page, as the user selected them.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Part<'a> {
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    ranks: &'a [u32],
}

impl<'a> Part<'a> {
    pub(crate) fn from_filter(filter: &'a Filter) -> Self {
        Self { from_ns: filter.from_ns, to_ns: filter.to_ns, ranks: &filter.ranks }
    }
}

/// The data of two runs for the page's script.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DiffModel<'a> {
    pub(crate) title: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) comparison: &'a Comparison,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "a type for its schema")]
enum AnyModel<'a> {
    Run(Model<'a>),
    Comparison(DiffModel<'a>),
}

pub(crate) fn schema_of_model() -> Schema {
    SchemaSettings::draft07().for_serialize().into_generator().into_root_schema_for::<AnyModel<'_>>()
}

/// Makes the page of a model: its sources, which are embedded in the tool, and the data of an archive. `data`: names
/// and base64 contents of data elements.
pub(crate) fn page(model: &impl Serialize, data: &[(String, String)]) -> Result<String> {
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

/// Tables keep at least this many rows. That is more than there are anomalies, whose classes are always kept.
const LEAST_ROWS: usize = 128;

/// The number of rows that were left out, keyed by name of the table.
pub(crate) type LeftOut = BTreeMap<&'static str, usize>;

/// Cuts tables until the report takes at most `most_bytes` in a page. Long tables keep the rows with the largest
/// losses, and plots keep fewer points.
pub(crate) fn cut(report: &mut Report, most_bytes: usize) -> Result<LeftOut> {
    let mut left_out = LeftOut::new();
    let mut rows = 8_192;
    while rows > LEAST_ROWS && packed_bytes(report)? > most_bytes {
        rows /= 2;
        keep("pairs", &mut report.pairs, rows, &mut left_out, |link| Reverse((link.lost_ns, link.bytes)));
        let by = |pair: &Messages| Reverse((pair.late_sender_ns + pair.late_receiver_ns, pair.bytes));
        keep("messages", &mut report.messages, rows, &mut left_out, by);
        operations(report, rows, &mut left_out);
        keep("phases", &mut report.phases, rows, &mut left_out, |phase| Reverse(phase.ranges_ns));
        if let Some(steps) = &mut report.steps {
            keep("steps", &mut steps.steps, rows, &mut left_out, |step| Reverse(step.duration_ns));
        }
        keep("communicator_calls", &mut report.communicator_calls, rows, &mut left_out, |call| {
            Reverse(call.duration_ns)
        });
        for link in report.pairs.iter_mut().chain(&mut report.channels) {
            let each = link.points.len().div_ceil((rows / 16).max(1)).max(1);
            link.points = link.points.iter().copied().step_by(each).collect();
        }
    }
    Ok(left_out)
}

/// Keeps the classes of anomalies and those that took longest. Renumbers the classes in anomalies, which refer to them
/// by index.
fn operations(report: &mut Report, rows: usize, left_out: &mut LeftOut) {
    let named: BTreeSet<u32> = report.anomalies.iter().map(|anomaly| anomaly.class).gather();
    let mut places: Vec<(u32, OperationClass)> = (0..).zip(mem::take(&mut report.operations)).collect();
    let key = |(place, class): &(u32, OperationClass)| (!named.contains(place), Reverse(class.budget.operations_ns));
    keep("operations", &mut places, rows, left_out, key);
    let numbers: BTreeMap<u32, u32> = places.iter().map(|(place, _)| *place).zip(0..).gather();
    for anomaly in &mut report.anomalies {
        anomaly.class = numbers.get(&anomaly.class).copied().unwrap_or(0);
    }
    report.operations = places.into_iter().map(|(_, class)| class).collect();
}

/// Keeps the `rows` rows with the smallest keys, without changing their order.
fn keep<T, K: Ord>(name: &'static str, table: &mut Vec<T>, rows: usize, left_out: &mut LeftOut, key: impl Fn(&T) -> K) {
    if table.len() <= rows {
        return;
    }
    let mut order: Vec<usize> = (0..table.len()).collect();
    nccl_events::sort::sort_by_key(&mut order, |at| key(&table[*at]));
    let mut is_kept = vec![false; table.len()];
    order.into_iter().take(rows).for_each(|at| is_kept[at] = true);
    *left_out.entry(name).or_default() += table.len() - rows;
    let mut each = is_kept.into_iter();
    table.retain(|_| each.next() == Some(true));
}

/// The size of a report in a page, in bytes: as deflated JSON in base64.
pub(crate) fn packed_bytes(report: &Report) -> Result<usize> {
    #[derive(Default)]
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut deflated = ZlibEncoder::new(Counted::default(), Compression::default());
    serde_json::to_writer(&mut deflated, report).context("cannot write JSON")?;
    let Counted(bytes) = deflated.finish().context("cannot deflate")?;
    // Base64 has four characters for three bytes.
    Ok(bytes.div_ceil(3) * 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_module() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("page/js");
        let mut names = Vec::new();
        for folder in ["", "timeline/"] {
            for file in fs::read_dir(script.join(folder)).expect("a folder of the script") {
                let name = file.expect("a file").file_name().into_string().expect("a name");
                names.extend(name.strip_suffix(".js").map(|name| format!("{folder}{name}")));
            }
        }
        names.sort_unstable();
        assert_eq!(MODULES.map(|(name, _)| name).as_slice(), names);
    }
}
