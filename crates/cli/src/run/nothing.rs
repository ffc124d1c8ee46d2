//! Why a run may have recorded nothing.

use std::path::Path;

use nccl_events::visible;

use crate::print::Text;

pub(super) fn reasons(plugin: &Path, directory: &Path) -> Text {
    let reasons = format!(
        "nothing was recorded into {directory}. `nccl-otf2 doctor`, run in the place of the command, finds most of the usual
reasons:
  - The command did not use NCCL, or made no communicator.
  - NCCL did not load the plugin. Run it again with NCCL_DEBUG=INFO and look for lines with `PROFILER`:
    they must name {plugin}, and after them (but in 2.23) comes `Loaded OTF2`.
    NCCL before 2.23 has no profiler plugins, also when it is linked into the program or the framework
    statically (then the installed NCCL's version says nothing). NCCL 2.27.3 finds none by its path:
    use --by-name.
  - The program replaced its environment: ssh, sudo and some launchers do not pass variables on.
    NCCL_PROFILER_PLUGIN and NCCL_OTF2_DIR must reach the processes that call NCCL.
  - NCCL_OTF2_MODE=off, or the plugin could not write: then it said so on stderr.
  - All communicators had one rank only: NCCL reports next to nothing about those.",
        directory = visible(&directory.to_string_lossy()),
        plugin = visible(&plugin.to_string_lossy()),
    );
    let mut text = Text::default();
    reasons.lines().for_each(|line| text.line(line));
    text
}
