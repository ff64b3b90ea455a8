#[derive(clap::Args, Debug)]
pub(crate) struct CastArgs {}
pub(crate) fn run(_: &CastArgs) -> Result<(), crate::outcome::Failure> {
    Ok(())
}
