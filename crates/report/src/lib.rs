//! The report: one run, or the comparison of two, as a single HTML file that loads nothing from a network.
//!
//! ```text
//!  Analysis ─► excerpt                               tables of the report that are too long for a page, cut
//!  Trace, Analysis ─► timeline ─► chunks of events ─┬► html     the page: its sources (`page/`), the model, the data
//!                                                   └► files    the rest, as scripts in a folder beside it
//! ```

#![forbid(unsafe_code)]

mod encoding;
mod excerpt;
mod html;
mod timeline;

use std::fs;
use std::path::{Path, PathBuf};

use analysis::read::{Kernels, Launches};
use analysis::results::Comparison;
use analysis::{Analysis, Filter, Trace, try_in_parallel};
use anyhow::{Context as _, Result};
use nccl_events::Progress;

use html::{DiffModel, Model, Part};
use timeline::{At, Chunks, Made};

/// The size of a page without events: its uncompressed sources, and names and attributes.
const FIXED_BYTES: usize = 600_000;
/// Of events in the page, with what they are linked to: few take more.
const EVENT_BYTES: usize = 7;
/// A page that is too small for its archive has this many events at least, as far as they fit.
const LEAST_EVENTS: usize = 16_384;
/// A chunk has some hundred kilobytes: if less space is left, none fits.
const LEAST_BYTES: usize = 20_000;

#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The page; an existing file is replaced.
    pub output: &'a Path,
    pub title: &'a str,
    pub tool: &'a str,
    /// The time and ranks that the page is about.
    pub filter: &'a Filter,
    pub most_bytes: usize,
    /// Whether events that do not fit are written into a folder beside the page.
    pub keeps_all: bool,
}

#[derive(Debug)]
pub struct Written {
    pub bytes: usize,
    pub events: usize,
    pub events_in_page: usize,
    /// The folder beside the page, if there is one, and the number of files in it.
    pub folder: Option<PathBuf>,
    pub files: usize,
}

/// Writes the page of one run. Memory is that of the analysis's operations and of the events in the page, not of all.
pub fn write(trace: &Trace, mut analysis: Analysis, options: Options<'_>, progress: &dyn Progress) -> Result<Written> {
    let tables = &mut analysis.tables;
    (tables.kernels, tables.launches) = (Kernels::default(), Launches::default());
    analysis.awaited.clear();
    let left_out = excerpt::cut(&mut analysis.report, options.most_bytes / 4)?;
    let fixed = FIXED_BYTES + excerpt::packed_bytes(&analysis.report)?;
    let room = options.most_bytes.saturating_sub(fixed);
    let most = if options.keeps_all { usize::MAX } else { (room / EVENT_BYTES).max(LEAST_EVENTS) };
    let mut made = Made::of(trace, &analysis, options.filter, most as u64, progress)?;
    let Analysis { report, tables, instances, pairing, .. } = analysis;
    drop((tables, instances, pairing));
    made.cut();
    progress.begin("page", 1);
    let overview = encoding::pack(&made.cells)?;
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
    let part = Part::of(options.filter);
    let (title, tool) = (options.title, options.tool);
    let model = Model { title, tool, part, report: &report, timeline: &timeline, left_out };
    let page = html::page(&model, &data)?;
    replace(options.output, page.as_bytes())?;
    progress.end();
    Ok(Written { bytes: page.len(), events, events_in_page, folder, files })
}

/// Writes the page of two runs; returns its size.
pub fn write_comparison(comparison: &Comparison, output: &Path, title: &str, tool: &str) -> Result<usize> {
    let page = html::page(&DiffModel { title, tool, comparison }, &[])?;
    replace(output, page.as_bytes())?;
    Ok(page.len())
}

/// The JSON Schema of what the page's script is given: `cargo xtask page` makes `page/model.d.ts` of it.
pub fn model_schema() -> schemars::Schema {
    html::model_schema()
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

/// Writes atomically: temporary file, then rename.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    fs::write(&part, bytes)
        .and_then(|()| fs::rename(&part, path))
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .with_context(|| format!("cannot write {}; -o names another file", path.display()))
}
