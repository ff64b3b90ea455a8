#[derive(clap::Args, Debug)]
pub(crate) struct InfoArgs {}
pub(crate) fn run(_: &InfoArgs) -> Result<(), crate::outcome::Failure> {
    Ok(())
}
