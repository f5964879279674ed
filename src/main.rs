//! The process edge: hands the arguments to the command line and returns its exit code.

fn main() -> std::process::ExitCode {
    plimsoll::cli::run()
}
