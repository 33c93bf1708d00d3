"""What every room uses: random numbers, checks, files, words and progress. Private."""
