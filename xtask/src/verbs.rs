//! One module per command.

pub(crate) mod bindings;
pub(crate) mod cupti_layout;
pub(crate) mod demo;
pub(crate) mod dist;
pub(crate) mod full;
pub(crate) mod fuzz;
pub(crate) mod golden;
pub(crate) mod gpu_check;
pub(crate) mod matrix;
pub(crate) mod page;
pub(crate) mod readers;
pub(crate) mod release;
pub(crate) mod scale;
pub(crate) mod scorep;
pub(crate) mod setup;
pub(crate) mod site;
pub(crate) mod test;
pub(crate) mod torture;
