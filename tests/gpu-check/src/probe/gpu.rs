//! What launches kernels: the GPU's driver, or the double of CUPTI, which only plays launches.

use c_double::Player;

use super::driver::{Device, Driver, EMPTY};
use crate::options::Options;
use crate::outcome::Outcome;

pub(super) enum Gpu {
    Real(Device),
    Double(Player),
}

impl Gpu {
    /// Loads the driver and makes the first device ours, as a job has done before it begins with NCCL.
    pub(super) fn start(options: &Options) -> Result<Self, Outcome> {
        let driver = Driver::load(options.driver.as_deref())?;
        match &options.cupti {
            Some(cupti) if options.double => {
                let failed = |error| Outcome::failed(format!("{}: {error}", cupti.display()));
                Player::load(cupti).map(Self::Double).map_err(failed)
            }
            _ => Ok(Self::Real(driver.start()?)),
        }
    }

    pub(super) fn launch(&self, count: u32) -> Result<(), Outcome> {
        (0..count).try_for_each(|_| match self {
            Self::Real(device) => device.launch(),
            Self::Double(player) => {
                player.launch(0, 7, EMPTY, [0, 0]);
                Ok(())
            }
        })
    }

    pub(super) fn synchronize(&self) -> Result<(), Outcome> {
        match self {
            Self::Real(device) => device.synchronize(),
            Self::Double(player) => {
                player.drain();
                Ok(())
            }
        }
    }
}
