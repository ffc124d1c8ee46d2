//! The arguments of `nccl-otf2 run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::settings::{self, Settings};

#[derive(Debug, Args)]
#[command(after_long_help = settings::help(), override_usage = "nccl-otf2 run [OPTIONS] [--] COMMAND [ARGUMENT]...")]
pub(crate) struct Request {
    /// Directory of the archive, with %j for the job id [default: NCCL_OTF2_DIR, else nccl-otf2-COMMAND-JOB, without a
    /// job id with date and time]
    #[arg(short, long, visible_alias = "output", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) out: Option<PathBuf>,

    /// Replace the archive that is in DIR
    #[arg(long, conflicts_with = "append")]
    pub(super) force: bool,

    /// Add this run's processes to the archive that is in DIR
    #[arg(long)]
    pub(super) append: bool,

    /// The plugin [default: beside this program, in ../lib or in ../lib64]
    #[arg(long, value_name = "FILE")]
    pub(super) plugin: Option<PathBuf>,

    /// Let NCCL look for the plugin on LD_LIBRARY_PATH: NCCL 2.27.3 loads no plugin by its path
    #[arg(long)]
    pub(super) by_name: bool,

    /// Do not call the profiler plugin behind this one that NCCL would load without this tool
    #[arg(long)]
    pub(super) no_chain: bool,

    #[command(flatten)]
    pub(super) settings: Settings,

    /// Leave it to `nccl-otf2 finalize` to complete the archive when processes were killed
    #[arg(long)]
    pub(super) no_finalize: bool,

    /// The command with its arguments; options after it are the command's
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub(super) command: Vec<OsString>,
}
