"""What the kept results say together: comparisons over data sets, and the page and pictures made of them."""
